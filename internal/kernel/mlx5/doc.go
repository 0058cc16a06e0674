//go:generate go run ./gen

// Package mlx5 drives mlx5 devices through the kernel's device file, without a library: it makes contexts, PDs, MRs,
// CQs, SRQs, QPs and AHs, and their rings. What posts to the rings is package internal/mlx5.
//
// Handles are numbers from a table. They are also what the kernel is given to name an object in an event, and are
// looked up when they come back. The verbs are methods of the objects: go generate writes those of package control,
// which look up the objects of their handles.
package mlx5
