//go:build linux

package verbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func TestTIS(t *testing.T) {
	p := openDevX(t, "mlx5_0,lag=2")
	td, out, e := p.object(0, 0, prm(uapi.OpAllocTransportDomain, 16), 16)
	p.must(e)
	domain := int(uapi.CmdNum.Get(out))
	for what, fields := range map[string][]any{
		"TLS":                     {tisNewDomain, domain, tisNewTLS, 1},
		"port 3 of a bond of two": {tisNewDomain, domain, tisNewLAGPort, 3},
	} {
		_, out, e := p.object(0, 0, prm(uapi.OpCreateTIS, 192, fields...), 16)
		p.wantStatus(what, out, e, uapi.StatusBadParam)
	}
	_, out, e = p.object(0, 0, prm(uapi.OpCreateTIS, 192, tisNewDomain, domain+1), 16)
	p.wantStatus("no such domain", out, e, uapi.StatusBadResource)

	tis, out, e := p.object(0, 0, prm(uapi.OpCreateTIS, 192, tisNewDomain, domain, tisNewLAGPort, 1), 16)
	p.must(e)
	n := int(uapi.CmdNum.Get(out))
	modify := prm(uapi.OpModifyTIS, 192, uapi.CmdNum, n, tisMask, tisMaskLAGPort, tisNewLAGPort, 2)
	_, _, e = p.object(2, tis, modify, 16)
	p.must(e)
	_, out, e = p.object(3, tis, prm(uapi.OpQueryTIS, 16, uapi.CmdNum, n), 176)
	if p.must(e); tisLAGPort.Get(out) != 2 || int(tisDomain.Get(out)) != domain {
		t.Errorf("query_tis: port %d, domain %d", tisLAGPort.Get(out), tisDomain.Get(out))
	}
	_, _, e = p.object(3, tis, prm(uapi.OpQueryTIS, 16, uapi.CmdNum, n+1), 176)
	p.want("another's number", e, unix.EINVAL)
	destroy := func(h uint32) unix.Errno {
		_, e := p.ioctl(0x1001, 0x1001, at(0x1000, 0, uint64(h)))
		return e
	}
	p.want("destroy a domain in use", destroy(td), unix.EBUSY)
	p.want("destroy the TIS", destroy(tis), 0)
	p.want("destroy the domain", destroy(td), 0)
}
