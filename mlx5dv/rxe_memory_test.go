package mlx5dv

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// older reports whether err says that libmlx5 is older than a release.
func older(err error, release string) bool {
	var ue *ibv.UnsupportedError
	return errors.As(err, &ue) && ue.Need == "libmlx5.so.1 of rdma-core "+release+" or later"
}

func TestRXEDM(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	dm := must(AllocDM(dev, 256, &DMOptions{DMOptions: ibv.DMOptions{LogAlign: 6}}))(t)
	pd := closing(t, must(dev.AllocPD())(t))
	mr := must(pd.RegDM(dm, 0, 256, ibv.LocalWrite))(t)
	must(dm.WriteAt([]byte("four"), 252))(t)
	got := make([]byte, 8)
	if n, err := dm.ReadAt(got, 248); n != 8 || err != nil || string(got[4:]) != "four" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := MapDMOp(dm, 0); !errors.Is(err, ibv.ErrNotSupported) { // no ConnectX of the emulator has operations
		t.Errorf("MapDMOp: %v", err)
	}
	if err := dm.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Close with an MR: %v", err)
	}
	if err := errors.Join(mr.Close(), dm.Close()); err != nil {
		t.Error(err)
	}
	if _, err := MapDMOp(dm, 0); !errors.Is(err, ibv.ErrClosed) {
		t.Errorf("MapDMOp of a closed DM: %v", err)
	}
	for _, typ := range []DMType{DMSteering, DMHeaderModify, DMHeaderModifyPattern, 17} {
		_, err := AllocDM(dev, 1<<20, &DMOptions{Type: typ})
		var ue *ibv.UnsupportedError
		if !errors.As(err, &ue) {
			t.Errorf("%v: %v, want an *UnsupportedError", typ, err)
		}
	}
	var le *ibv.LimitError
	if _, err := AllocDM(dev, 1<<30, nil); !errors.As(err, &le) {
		t.Errorf("1 GiB: %v", err)
	}
	var ae *ibv.ArgError
	if _, err := AllocDM(dev, 0, nil); !errors.As(err, &ae) {
		t.Errorf("0 bytes: %v", err)
	}
	if _, err := AllocDM(nil, 64, nil); !errors.As(err, &ae) {
		t.Errorf("no device: %v", err)
	}
	if _, err := MapDMOp(nil, 0); !errors.As(err, &ae) {
		t.Errorf("no DM: %v", err)
	}
}

// A regular file is no dma-buf. Only libmlx5 since v54 has the call.
func TestRXEDmabuf(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	f := closing(t, must(os.Create(filepath.Join(t.TempDir(), "file")))(t))
	for _, direct := range []bool{false, true} {
		_, err := RegDmabuf(pd, int(f.Fd()), 0, 4096, 0, ibv.LocalWrite, direct)
		if older(err, "v54") {
			continue
		}
		if direct && errors.Is(err, ibv.ErrNotSupported) {
			continue // no data-direct function
		}
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("data direct %v: %v", direct, err)
		}
	}
	var ae *ibv.ArgError
	if _, err := RegDmabuf(pd, -1, 0, 4096, 0, ibv.LocalWrite, false); !errors.As(err, &ae) || ae.Arg != "fd" {
		t.Errorf("descriptor -1: %v", err)
	}
	if _, err := RegDmabuf(nil, 1, 0, 4096, 0, ibv.LocalWrite, false); !errors.As(err, &ae) {
		t.Errorf("no PD: %v", err)
	}
}
