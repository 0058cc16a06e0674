package ibv

import "fmt"

// DataPath is the engine that posts and polls.
type DataPath uint8

const (
	// DataPathAuto takes the fastest engine that the device and the library
	// allow.
	DataPathAuto DataPath = 0
	// DataPathOps calls the provider's functions, for any device.
	DataPathOps DataPath = 1
	// DataPathDirect writes the device's rings from Go.
	DataPathDirect DataPath = 2
)

// String names the engine.
func (d DataPath) String() string {
	switch d {
	case DataPathAuto:
		return "Auto"
	case DataPathOps:
		return "Ops"
	case DataPathDirect:
		return "Direct"
	}
	return fmt.Sprintf("DataPath(%d)", uint8(d))
}

// DataPathEnv overrides DataPathAuto: "ops" is the only engine that it can name
// today.
const DataPathEnv = "PUREVERBS_DATAPATH"

// chooseDataPath settles the engine of a CQ and says why it is that one.
func chooseDataPath(want DataPath, env string) (DataPath, string, error) {
	switch {
	case want == DataPathDirect:
		return 0, "", &UnsupportedError{Feature: "the direct data path", Need: "a release of pureverbs that has it", Have: "the ops engine"}
	case want > DataPathDirect:
		return 0, "", &ArgError{Arg: "DataPath", Got: want.String(), Want: "DataPathAuto or DataPathOps"}
	case want == DataPathOps:
		return DataPathOps, "asked for", nil
	case env == "" || env == "auto":
		return DataPathOps, "the only engine of this release", nil
	case env == "ops":
		return DataPathOps, DataPathEnv + "=ops", nil
	}
	return 0, "", &ArgError{Arg: "environment " + DataPathEnv, Got: env, Want: "ops or auto"}
}
