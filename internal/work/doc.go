// Package work holds what both engines share about work requests: the fields, and the table of kinds, which says what
// an opcode uses.
package work
