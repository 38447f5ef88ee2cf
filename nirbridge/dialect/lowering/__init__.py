"""The dialect lowered to linalg, scf, arith and tensor: one function with the loop over time in it."""
