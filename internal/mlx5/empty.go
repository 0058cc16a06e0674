//go:build amd64 || arm64

package mlx5

// empty implements Empty. See look.go for why it is assembly.
//
//go:noescape
func empty(cq *CQ) bool
