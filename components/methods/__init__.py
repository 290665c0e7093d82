"""What teams, populations and hybrid players differ in; each method is a folder."""
