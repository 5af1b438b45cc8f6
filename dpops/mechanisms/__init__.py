"""One mechanism a file; `dpops.registry` finds them."""
