package rdmacm

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Cgroup: a QP of an ID that exceeds the limit of an rdma cgroup says so, as one of package ibv does.
func TestRXE_Cgroup(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t) // cgroups
	if !testutil.Alone(t) {
		return
	}
	dir := testutil.NewCgroup(t, "rdma")
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.Bind(local(t)))
	d := must(id.Verbs())(t)
	pd := must(d.AllocPD())(t)
	cq := must(d.CreateCQ(8, nil))(t)
	b, err := os.ReadFile(dir + "/rdma.current")
	ok(t, err)
	_, used, _ := strings.Cut(string(b), "hca_object=")
	ok(t, os.WriteFile(dir+"/rdma.max", []byte(d.Name()+" hca_object="+strings.Fields(used)[0]), 0))
	_, err = id.CreateQP(pd, cq, cq, nil)
	var c *ibv.CgroupError
	if !errors.As(err, &c) || !errors.Is(err, syscall.EAGAIN) || c.Path != dir {
		t.Errorf("%v, want a CgroupError", err)
	}
	ok(t, os.WriteFile(dir+"/rdma.max", []byte(d.Name()+" hca_object=max"), 0))
	ok(t, must(id.CreateQP(pd, cq, cq, nil))(t).Close())
	ok(t, errors.Join(id.Close(), cq.Close(), pd.Close()))
}
