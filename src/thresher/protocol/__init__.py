"""What another language must match: messages, their canonical form, sealing, plaintexts and rates."""
