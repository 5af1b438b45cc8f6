"""A table of counts that can be added up by hand."""

TABLE = """slot,cell,vehicle,count
8,a,PLATE1,10
8,a,PLATE2,4
8,b,PLATE1,3
9,a,PLATE1,5
9,a,PLATE3,5
9,b,PLATE3,1
9,c,PLATE3,1
"""
