"""What clients did and saw while a cluster was tormented, and the judge of it."""
