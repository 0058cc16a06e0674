package mlx5dv

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXEZZDeviceRemoved takes the second device away, for good: it is the last
// test. Whatever was made on it closes, whoever made it.
func TestRXEZZDeviceRemoved(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("takes a device away: runs on the emulated device only (make test-emu)")
	}
	emu := testutil.NeedProgram(t, "emu")
	type object struct {
		name  string
		close func() error
	}
	var objects []object
	add := func(name string, close func() error) { objects = append(objects, object{name, close}) }
	dev := must(ibv.Open(r.Dev[1]))(t)
	add("Context", dev.Close)
	pd := must(dev.AllocPD())(t)
	add("PD", pd.Close)
	td := must(dev.AllocThreadDomain())(t)
	add("ThreadDomain", td.Close)
	parent := must(dev.AllocParentDomain(pd, td))(t)
	add("parent domain", parent.Close)
	ch := must(dev.CreateCompChannel())(t)
	add("CompChannel", ch.Close)
	for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect, ibv.DataPathRaw} {
		t.Run(path.String(), func(t *testing.T) {
			testutil.NeedControl(t)
			opt := ibv.CQOptions{DataPath: path, Channel: ch}
			cq := must(dev.CreateCQ(16, &opt))(t)
			add(fmt.Sprintf("CQ, %v", path), cq.Close)
			dcq := must(CreateCQ(dev, 16, &CQOptions{CQOptions: opt}))(t)
			add(fmt.Sprintf("mlx5dv CQ, %v", path), dcq.Close)
			srq := must(pd.CreateSRQ(&ibv.SRQOptions{DataPath: path}))(t)
			add(fmt.Sprintf("SRQ, %v", path), srq.Close)
			for _, p := range []*ibv.PD{pd, parent} {
				qp := must(p.CreateQP(cq, dcq, &ibv.QPOptions{SRQ: srq}))(t)
				add(fmt.Sprintf("QP, %v", path), qp.Close)
				dqp := must(CreateQP(p, dcq, cq, nil))(t)
				ok(t, dqp.Connect(must(dqp.Endpoint(1, ibv.BestGID))(t), nil))
				add(fmt.Sprintf("mlx5dv QP, %v", path), dqp.Close)
			}
		})
	}
	mr := must(pd.AllocMR(4096, ibv.LocalWrite, nil))(t)
	add("MR", mr.Close)
	ah := must(pd.CreateAH(&ibv.AHAttr{Port: 1, Global: true, DGID: must(dev.QueryGID(1, 0))(t)}))(t)
	add("AH", ah.Close)

	if out, err := exec.Command(emu, "control", "remove", r.Dev[1]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i := len(objects) - 1; i >= 0; i-- {
		if err := objects[i].close(); err != nil {
			t.Errorf("close %s: %v", objects[i].name, err)
		}
	}
}
