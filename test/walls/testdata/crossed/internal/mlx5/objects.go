package mlx5

import _ "github.com/pureverbs/pureverbs/ibv"
