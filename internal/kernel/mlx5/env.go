package mlx5

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// envNumber reads a variable of the environment as atoi(3) does.
func envNumber(name string, otherwise int) int {
	s, set := os.LookupEnv(name)
	if !set {
		return otherwise
	}
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && (s[0] == '-' || s[0] == '+')) {
		end++
	}
	n, _ := strconv.Atoi(s[:end])
	return n
}

// noBlueFlame reports whether no register may combine writes.
func noBlueFlame() bool {
	v, set := os.LookupEnv("MLX5_SHUT_UP_BF")
	return set && v != "0"
}

// scatterToCQE reports whether a device may put what it received into the completion.
func scatterToCQE() bool { return os.Getenv("MLX5_SCATTER_TO_CQE") != "0" }

// cqeSize returns the bytes of a completion.
func cqeSize() (uint32, error) {
	switch n := envNumber("MLX5_CQE_SIZE", 64); n {
	case 64, 128:
		return uint32(n), nil
	}
	return 0, syscall.EINVAL
}

// registerCount is how many doorbell registers a context wants from a kernel that makes them with the context.
type registerCount struct{ total, lowLatency uint32 }

// registersWanted returns it, with the limits that libmlx5 has (rdma-core v44.0, providers/mlx5/mlx5.c:600, 691, 2311).
func registersWanted(pageSize int) (registerCount, error) {
	const most, medium = 512, 12
	total := envNumber("MLX5_TOTAL_UUARS", 16)
	low := envNumber("MLX5_NUM_LOW_LAT_UUARS", 4)
	if total < 1 || total > most {
		return registerCount{}, syscall.EINVAL
	}
	total = (max(total, pageSize/uarSize*regsPerUAR) + 1) &^ 1
	if total > most {
		return registerCount{}, syscall.ENOMEM
	}
	if low < 0 {
		return registerCount{}, syscall.EINVAL
	}
	if low = max(low, total-medium); low > total-1 {
		return registerCount{}, syscall.ENOMEM
	}
	return registerCount{uint32(total), uint32(low)}, nil
}
