package ibv

import (
	"runtime"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/mlx5"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// native returns the native control path. It fails where the direct data path does.
func native(why string) (*verbs, error) {
	if runtime.GOOS != "linux" || !mmio.Supported {
		return nil, &UnsupportedError{Feature: "the native control path", Need: "Linux on amd64 or arm64",
			Have: runtime.GOOS + " on " + runtime.GOARCH}
	}
	v := mlx5.New()
	return &verbs{Verbs: v, native: true, why: why, mlx5: func() (control.MLX5, error) { return v.Rings(), nil },
		checkProviders: func() error { return nil }}, nil
}
