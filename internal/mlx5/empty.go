//go:build amd64 || arm64

package mlx5

// empty is Empty.
//
//go:noescape
func empty(cq *CQ) bool
