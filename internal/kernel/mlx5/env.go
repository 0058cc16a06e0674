package mlx5

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
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

// scatterFlag is scatterToCQE as a flag of abi.MLX5IBCreateQP.
func scatterFlag() uint32 {
	if scatterToCQE() {
		return abi.MLX5_QP_FLAG_SCATTER_CQE
	}
	return 0
}
