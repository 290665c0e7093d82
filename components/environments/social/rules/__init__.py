"""Small games of several members with known equilibria: rules as pure functions of frozen states and joint actions."""
