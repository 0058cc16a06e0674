//go:build !pureverbs_native

package ibv

import (
	"sync"

	"github.com/pureverbs/pureverbs/internal/bind/libmlx5"
	"github.com/pureverbs/pureverbs/internal/bind/ofed"
	"github.com/pureverbs/pureverbs/internal/control"
)

// static is whether the program can load no library.
const static = false

// library opens libibverbs once.
var library = sync.OnceValues(func() (*verbs, error) {
	lib, err := ofed.Open()
	if err != nil {
		return nil, err
	}
	return &verbs{Verbs: lib, mlx5: func() (control.MLX5, error) { return libmlx5.Open() },
		checkProviders: checkProviders(lib.Path())}, nil
})
