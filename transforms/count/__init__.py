"""By vehicle: what each vehicle did in each cell, and how columns travel between stages."""
