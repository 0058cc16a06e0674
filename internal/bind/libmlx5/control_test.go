package libmlx5

import "github.com/pureverbs/pureverbs/internal/control"

var _ control.MLX5 = Lib{}
