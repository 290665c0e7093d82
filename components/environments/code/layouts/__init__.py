"""How each dataset spells a programming problem."""
