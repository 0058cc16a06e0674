package lag

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/native"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// childEnv is set in the process on the emulated adapter.
const childEnv = "PUREVERBS_LAG_CHILD"

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closing[T interface{ Close() error }](t *testing.T, v T) T {
	t.Cleanup(func() { ok(t, v.Close()) })
	return v
}

// TestEmuLAG runs on an adapter that is a bond of two ports, on each control path.
func TestEmuLAG(t *testing.T) {
	testutil.NeedEmu(t)
	if os.Getenv(childEnv) == "" {
		for _, path := range []string{"library", "native"} {
			c := exec.Command("../../.build/bin/emu", "--strict", "--device", "mlx5_0,lag=2", "--", os.Args[0],
				"-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=200s")
			c.Env = append(os.Environ(), childEnv+"=1", native.Env+"="+path)
			if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
				t.Errorf("%s: %v\n%s", path, err, out)
			}
		}
		return
	}
	dev := closing(t, must(ibv.Open("mlx5_0"))(t))
	if n := must(mlx5dv.QueryDevice(dev))(t).LAGPorts; n != 2 {
		t.Errorf("%d ports are bonded", n)
	}
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(4, nil))(t))
	first, second := closing(t, must(pd.CreateQP(cq, cq, nil))(t)), closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	for i, qp := range []*ibv.QP{first, second} {
		if err := mlx5dv.ModifyLAGPort(qp, 1); !errors.Is(err, ibv.ErrNotSupported) {
			t.Errorf("a port in RESET: %v", err)
		}
		ok(t, qp.Connect(must(qp.Endpoint(1, ibv.BestGID))(t), nil))
		if p := must(mlx5dv.QueryLAGPort(qp))(t); p.Configured != uint8(i+1) || p.Active != p.Configured {
			t.Errorf("QP %d sends from %+v", i, p)
		}
	}
	ok(t, mlx5dv.ModifyLAGPort(first, 2))
	if p := must(mlx5dv.QueryLAGPort(first))(t); p != (mlx5dv.LAGPort{Configured: 2, Active: 2}) {
		t.Errorf("it sends from %+v", p)
	}
	var arg *ibv.ArgError
	if err := mlx5dv.ModifyLAGPort(first, 3); !errors.As(err, &arg) || arg.Arg != "port" {
		t.Errorf("port 3 of 2: %v", err)
	}
	raw, err := pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket})
	if err != nil {
		t.Logf("no raw packet QPs: %v", err)
		return
	}
	closing(t, raw)
	ok(t, mlx5dv.ModifyLAGPort(raw, 2))
	if p := must(mlx5dv.QueryLAGPort(raw))(t); p.Configured != 2 {
		t.Errorf("a raw packet QP sends from %+v", p)
	}
}
