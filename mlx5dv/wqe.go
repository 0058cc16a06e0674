package mlx5dv
