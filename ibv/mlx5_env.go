package ibv

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Variables of the environment that libmlx5 reads, and that make calls fail with a bare errno.
const (
	envTotalUUARs  = "MLX5_TOTAL_UUARS"
	envLowLatUUARs = "MLX5_NUM_LOW_LAT_UUARS"
	envCQESize     = "MLX5_CQE_SIZE"
)

// driverMLX5 is the kernel's driver of the devices of libmlx5.
const driverMLX5 = "mlx5_core"

// envNumber reads a variable as atoi(3) does.
func envNumber(name string, otherwise int) (n int, set bool) {
	s, set := os.LookupEnv(name)
	if !set {
		return otherwise, false
	}
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && (s[0] == '-' || s[0] == '+')) {
		end++
	}
	n, _ = strconv.Atoi(s[:end])
	return n, true
}

// envError is an invalid value of a variable.
func envError(name, want string) error {
	return &ArgError{Arg: "the environment variable " + name, Got: strconv.Quote(os.Getenv(name)), Want: want}
}

// mostUUARs is the number of doorbell registers that libmlx5 can have.
const mostUUARs = 512

// uuarsOpen reports whether libmlx5 opens a device with these values, on a host with pages of that size. There are at
// least two registers for each 4 KiB of a page. Of more than 12 each belongs to one QP, and one must be for all others
// (rdma-core v44.0, providers/mlx5/mlx5.c:600, 691 and 2311).
func uuarsOpen(total, low, pageSize int) bool {
	all := (max(total, pageSize/4096*2) + 1) &^ 1
	return total >= 1 && low >= 0 && all <= mostUUARs && max(low, all-12) < all
}

// explainOpenEnv returns the variable that keeps libmlx5 from opening a device, nil for none.
func explainOpenEnv(pageSize int) error {
	total, totalSet := envNumber(envTotalUUARs, 16)
	low, lowSet := envNumber(envLowLatUUARs, 4)
	if uuarsOpen(total, low, pageSize) {
		return nil
	}
	// blame returns the error for one of the two, if a value of it would do.
	blame := func(name, other string, set bool, value int, opens func(n int) bool) error {
		least, most := -1, -1
		for n := range mostUUARs + 1 {
			if opens(n) {
				if most = n; least < 0 {
					least = n
				}
			}
		}
		if least < 0 {
			return nil
		}
		want := fmt.Sprintf("%d to %d, with %s=%d", least, most, other, value)
		if !set {
			want += ", its default"
		}
		return envError(name, want)
	}
	var err error
	if totalSet {
		err = blame(envTotalUUARs, envLowLatUUARs, lowSet, low, func(n int) bool { return uuarsOpen(n, low, pageSize) })
	}
	if err == nil {
		err = blame(envLowLatUUARs, envTotalUUARs, totalSet, total,
			func(n int) bool { return uuarsOpen(total, n, pageSize) })
	}
	if err == nil { // neither alone is to blame
		err = envError(envTotalUUARs, fmt.Sprintf("6 to %d, without %s in the environment", mostUUARs, envLowLatUUARs))
	}
	return err
}

// checkCQEnv returns the variable that keeps libmlx5 from creating a CQ, nil for none.
func checkCQEnv() error {
	if n, set := envNumber(envCQESize, 64); set && n != 64 && n != 128 {
		return envError(envCQESize, "64 or 128")
	}
	return nil
}
