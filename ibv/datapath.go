package ibv

import (
	"fmt"
	"os"
)

// DataPath is the engine that posts and polls.
type DataPath uint8

const (
	// DataPathAuto selects the fastest engine that the device and the library allow.
	DataPathAuto DataPath = 0
	// DataPathOps calls the provider's functions. It works on any device.
	DataPathOps DataPath = 1
	// DataPathDirect writes the device's rings from Go.
	DataPathDirect DataPath = 2
	// DataPathRaw leaves the device's rings to a program that drives them through package
	// mlx5dv: posting and polling in this package return ErrRaw.
	DataPathRaw DataPath = 3
)

// String returns the name, as in "Ops".
func (d DataPath) String() string {
	switch d {
	case DataPathAuto:
		return "Auto"
	case DataPathOps:
		return "Ops"
	case DataPathDirect:
		return "Direct"
	case DataPathRaw:
		return "Raw"
	}
	return fmt.Sprintf("DataPath(%d)", uint8(d))
}

// DataPathEnv overrides DataPathAuto: "ops" or "direct".
const DataPathEnv = "PUREVERBS_DATAPATH"

// choosePath selects the engine of a queue of the device and returns the reason.
func (d *Device) choosePath(want DataPath, direct func() error) (DataPath, string, error) {
	path, why, err := chooseDataPath(want, os.Getenv(DataPathEnv), direct)
	if err == nil && path == DataPathOps {
		err = d.v.needLibrary("the ops data path (" + why + ")")
	}
	return path, why, err
}

// chooseDataPath selects the engine of a queue and returns the reason. direct returns why the
// direct data path is unavailable, nil if it is available.
func chooseDataPath(want DataPath, env string, direct func() error) (DataPath, string, error) {
	why := "asked for"
	if want == DataPathAuto {
		switch env {
		case "", "auto":
			if err := direct(); err != nil {
				return DataPathOps, err.Error(), nil
			}
			return DataPathDirect, "an mlx5 device", nil
		case "ops":
			want = DataPathOps
		case "direct":
			want = DataPathDirect
		default:
			return 0, "", &ArgError{Arg: "environment " + DataPathEnv, Got: env, Want: "ops, direct or auto"}
		}
		why = DataPathEnv + "=" + env
	}
	switch want {
	case DataPathOps:
		return DataPathOps, why, nil
	case DataPathDirect, DataPathRaw:
		if err := direct(); err != nil {
			return 0, "", err
		}
		return want, why, nil
	}
	return 0, "", &ArgError{Arg: "DataPath", Got: want.String(), Want: "DataPathAuto, DataPathOps, DataPathDirect or " +
		"DataPathRaw"}
}
