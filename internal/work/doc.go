// Package work is what a work request is to both engines: its fields, and what an opcode needs of them. An opcode is
// added here, with its device's opcode in internal/mlx5.
package work
