"""Many runs from one recipe: what they are, how they are carried out, and what is kept of them."""
