package wire

import _ "github.com/pureverbs/pureverbs/internal/mlx5"
