// Package guest reaches into programs that run under the supervisor: their memory, their descriptors, their mappings.
// All of it works without privilege on descendants of the same user. What a program does meanwhile (unmap, close, die)
// is an ordinary error.
package guest
