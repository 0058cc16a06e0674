package mlx5dv_test

import (
	"fmt"

	"github.com/pureverbs/pureverbs/mlx5dv"
)

func ExampleHeaderField() {
	fmt.Println(mlx5dv.FieldTTL.Bits(), mlx5dv.FieldSrcMACHigh.Bits())
	// Output:
	// 8 32
}

// Values print their names, and sets all of them.
func ExampleFlowTable() {
	fmt.Println(mlx5dv.TableNICRx, mlx5dv.CRC32|mlx5dv.CRC32C, mlx5dv.CommandStatus(3))
	// Output:
	// NICRx CRC32|CRC32C BadParameter
}
