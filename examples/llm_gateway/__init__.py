"""A gateway to a language model: seats by the tokens that are asked for, charged by those that came."""
