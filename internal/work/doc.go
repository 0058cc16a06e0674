// Package work holds what both engines share about work requests: the fields, and which of them an opcode uses. To add
// an opcode, add it here, and its device opcode in internal/mlx5.
package work
