package ibv

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/pureverbs/pureverbs/internal/level"
)

// hasFault reports whether libmlx5 drives the device and has a fault. docs/libmlx5.md describes them.
func (d *Device) hasFault(f level.Fault) bool {
	return !d.v.native && d.mayBeMLX5() && f.In(d.v.Version(), d.v.Context(d.handle).Size, runtime.GOARCH)
}

// without returns the error for a feature that a fault of libmlx5 takes away. fixed is the first series without it.
func (d *Device) without(feature, need, fixed string) error {
	return &UnsupportedError{Feature: feature,
		Need: need + ": rdma-core " + fixed + ", or a late release of a series before",
		Have: "version " + d.v.Version()}
}

// checkServiceLevel returns an error if libmlx5 would make an address handle with another service level.
func (d *Device) checkServiceLevel(a *AHAttr) error {
	ethernet := d.sl() == 0
	feature := fmt.Sprintf("the service level %d of an address", a.SL)
	const need = "a libmlx5 that sends with it"
	switch {
	case a.SL != 0 && ethernet && d.hasFault(level.EthernetSL):
		return d.without(feature+" on Ethernet", need, "v22")
	case a.SL > 7 && !ethernet && d.hasFault(level.HighSL):
		return d.without(feature, need, "v24")
	}
	return nil
}

// checkWQESum returns an error if libmlx5 would read beyond its memory to sign the work requests of a QP.
func (d *Device) checkWQESum() error {
	const name = "MLX5_QP_SIGNATURE"
	if _, set := os.LookupEnv(name); !set || !d.hasFault(level.WQESum) {
		return nil
	}
	return d.without("a QP with "+name+" in the environment", "a libmlx5 that signs work requests correctly", "v33")
}

// explainCQEnv returns checkCQEnv's error in place of a refusal.
func (d *Device) explainCQEnv(err error) error {
	if why := checkCQEnv(); why != nil && errors.Is(err, errInvalid) && d.mayBeMLX5() {
		return why
	}
	return err
}

// blameSignatures adds to a refusal that a variable of the environment asks for signatures of work requests, which not
// every kernel and device has.
func (d *Device) blameSignatures(name string, err error) error {
	if v, set := os.LookupEnv(name); set && errors.Is(err, errInvalid) && d.mayBeMLX5() {
		return fmt.Errorf("%w; %s=%s in the environment asks for signatures: unset it", err, name, v)
	}
	return err
}
