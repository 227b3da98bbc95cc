"""Three services that pass deadlines and criticality on: see README.md."""
