package ibv

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Cgroup: each create that exceeds the limit of an rdma cgroup says so, with the cgroup's path.
func TestRXE_Cgroup(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t) // cgroups
	if !testutil.Alone(t) {
		return
	}
	dir := testutil.NewCgroup(t, "rdma")
	limit := func(s string) { ok(t, os.WriteFile(dir+"/rdma.max", []byte(rxe.Dev[0]+" "+s), 0)) }
	refused := func(what, resource string, err error) {
		t.Helper()
		var c *CgroupError
		if !errors.As(err, &c) || !errors.Is(err, syscall.EAGAIN) || c.Resource != resource ||
			c.Path != dir || c.Device != rxe.Dev[0] {
			t.Errorf("%s: %v, want a CgroupError of %s", what, err, resource)
		}
	}
	d := must(Open(rxe.Dev[0]))(t)
	limit("hca_handle=1")
	_, err := Open(rxe.Dev[0])
	refused("open", "hca_handle", err)
	pd, cq := must(d.AllocPD())(t), must(d.CreateCQ(8, nil))(t)
	qp := must(pd.CreateQP(cq, cq, nil))(t)
	b, err := os.ReadFile(dir + "/rdma.current")
	ok(t, err)
	_, used, _ := strings.Cut(string(b), "hca_object=")
	limit("hca_object=" + strings.Fields(used)[0])
	for what, create := range map[string]func() (any, error){
		"pd":  func() (any, error) { return d.AllocPD() },
		"cq":  func() (any, error) { return d.CreateCQ(8, nil) },
		"qp":  func() (any, error) { return pd.CreateQP(cq, cq, nil) },
		"srq": func() (any, error) { return pd.CreateSRQ(nil) },
		"mr":  func() (any, error) { return pd.AllocMR(4096, LocalWrite, nil) },
		"mw":  func() (any, error) { return pd.AllocMW(MWType1) },
	} {
		_, err := create()
		refused(what, "hca_object", err)
	}
	limit("hca_object=max")
	mr := must(pd.AllocMR(4096, LocalWrite, nil))(t)
	ok(t, errors.Join(mr.Close(), qp.Close(), cq.Close(), pd.Close(), d.Close()))
}
