package ibv

import (
	"os"
)

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
