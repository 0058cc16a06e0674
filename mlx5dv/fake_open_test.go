package mlx5dv

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind"
)

// TestFakeOldDevX opens devices with a libmlx5 from before v29, which requests DevX in mlx5dv_open_device alone.
func TestFakeOldDevX(t *testing.T) {
	onFake(t, func(t *testing.T) {
		old := func(t *testing.T, refusal syscall.Errno) {
			undo := bind.Hide("v30", "ibv_get_device_index", "mlx5dv_pp_alloc")
			fakeCall(t, "fake_devx_on_request", 1, uintptr(refusal))
			t.Cleanup(func() { undo(); fakeCall(t, "fake_devx_on_request", 0, 0) })
		}
		t.Run("requested", func(t *testing.T) {
			old(t, 0)
			withFake(t, "device", func(t *testing.T, dev *ibv.Device) {
				for what, err := range needDevX(t, dev) {
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		})
		without := func(t *testing.T, dev *ibv.Device, why string) {
			t.Helper()
			for what, err := range needDevX(t, dev) {
				if wantUnsupported(t, what, err); err != nil && !strings.Contains(err.Error(), why) {
					t.Errorf("%s: %v, want %q", what, err, why)
				}
			}
		}
		t.Run("refused", func(t *testing.T) {
			old(t, syscall.EOPNOTSUPP)
			withFake(t, "device", func(t *testing.T, dev *ibv.Device) { without(t, dev, "refused DevX when") })
		})
		t.Run("opened by librdmacm", func(t *testing.T) {
			old(t, syscall.EOPNOTSUPP)
			withFake(t, "device", func(t *testing.T, dev *ibv.Device) {
				h, leave, err := verbs.Enter(dev, "test")
				ok(t, err)
				defer leave()
				lent := must(verbs.OpenLent(h))(t)
				without(t, lent, "another library opened")
				ok(t, verbs.CloseLent(lent))
			})
		})
		t.Run("v29", func(t *testing.T) {
			defer bind.Hide("v30", "ibv_get_device_index")()
			withFake(t, "device", func(t *testing.T, dev *ibv.Device) {
				for what, err := range needDevX(t, dev) {
					if err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
			if n := fakeCall(t, "fake_devx_requests"); n != 0 {
				t.Errorf("DevX was requested %d times of a library that always has it", n)
			}
		})
	})
}

// needDevX returns the errors of calls that need DevX.
func needDevX(t *testing.T, dev *ibv.Device) map[string]error {
	t.Helper()
	errs := map[string]error{"command": DevXCommand(dev, cmd(0x80d, 16), make([]byte, 16))}
	o, err := CreateDevXObject(dev, cmd(0x80d, 16), make([]byte, 16))
	if errs["object"] = err; err == nil {
		ok(t, o.Close())
	}
	_, errs["eqn"] = QueryEQN(dev, 0)
	d, err := CreateDRDomain(dev, DRDomainNICRx)
	if errs["direct rules"] = err; err == nil {
		ok(t, d.Close())
	}
	pd := must(dev.AllocPD())(t)
	m, err := CreateMkey(pd, nil)
	if errs["mkey"] = err; err == nil {
		ok(t, m.Close())
	}
	ok(t, pd.Close())
	return errs
}
