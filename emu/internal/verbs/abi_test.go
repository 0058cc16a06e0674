//go:build linux

package verbs

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// noted keeps the rules that were violated.
type noted struct {
	hca.Watcher
	rules []string
}

func (n *noted) Violation(_ int, rule, _ string) { n.rules = append(n.rules, rule) }

func (*noted) Command(*hca.Context, string) (e unix.Errno, reply hca.Reply) { return 0, reply }

func TestABI_Forms(t *testing.T) {
	const object, absent = unix.EINVAL, unix.EPROTONOSUPPORT
	for _, tt := range []struct {
		abi                         string
		none, method, invoke, write unix.Errno // of a method that no kernel has, and of a query in each form
		channel, srq, dropMW        unix.Errno
	}{
		{abi: "both", none: absent, srq: object, dropMW: unix.ENOENT},
		{abi: "write", none: unix.ENOTTY, method: unix.ENOTTY, invoke: unix.ENOTTY, channel: unix.ENOTTY,
			srq: unix.ENOTTY, dropMW: unix.ENOTTY},
		{abi: "ioctl", none: absent, write: unix.EINVAL, srq: object, dropMW: unix.ENOENT},
		{abi: "invoke", none: absent, method: absent, write: unix.EINVAL, srq: absent, dropMW: unix.ENOENT},
		{abi: "sandbox", none: unix.EINVAL, write: unix.EINVAL, channel: unix.EINVAL, srq: unix.EINVAL,
			dropMW: unix.ENOENT},
	} {
		t.Run(tt.abi, func(t *testing.T) {
			p := open(t, "mlx5_0,abi="+tt.abi)
			w := new(noted)
			p.s.f.Watch = w
			p.abi = "ioctl"
			if tt.abi == "write" || tt.abi == "invoke" {
				p.abi = tt.abi
			}
			_, e := p.get(ucontextReq())
			p.must(e)
			_, e = p.ioctl(1, 77)
			p.want("no method", e, tt.none)
			_, room := p.out(1, 48)
			_, e = p.ioctl(0, 2, p.in(0, le(uint64(1))), room)
			p.want("query_port", e, tt.method)
			for abi, want := range map[string]unix.Errno{"invoke": tt.invoke, "write": tt.write} {
				p.abi = abi
				_, _, e = p.cmd(1, make([]byte, 8), 176, nil, 0)
				p.want("query_device", e, want)
			}
			p.abi = "invoke"
			r, _, e := p.cmd(17, make([]byte, 8), 4, nil, 0)
			p.want("create_comp_channel", e, tt.channel)
			if e == 0 {
				unix.Close(int(u32(r, 0)))
			}
			_, e = p.ioctl(uapi.ObjSRQ, 0)
			p.want("create_srq", e, tt.srq)
			_, _, e = p.cmd(16, le(99), 0, nil, 0)
			p.want("dealloc_mw", e, tt.dropMW)
			want := []string{}
			if tt.write != 0 {
				want = []string{RuleWrite}
			}
			if !slices.Equal(w.rules, want) {
				t.Errorf("strict mode says %v, want %v", w.rules, want)
			}
		})
	}
}

// TestABI_Context has a kernel without the ioctl make registers with the context, also for a library that allocates
// them by name, and refuse DevX.
func TestABI_Context(t *testing.T) {
	p := open(t, "mlx5_0,abi=write")
	p.abi = "write"
	_, e := p.get(le(16, 4, 1, 0, uint8(1), uint8(0), uint16(0), 0, uint64(3)))
	p.want("get_context with DevX", e, unix.EINVAL)
	uhw, e := p.get(ucontextReq())
	p.must(e)
	if u := uapi.Decode[uapi.AllocUcontextResp](uhw); u.TotBfregs == 0 {
		t.Errorf("get_context made no registers: %+v", u)
	}
}

// TestABI_Sandbox finds what its lists have.
func TestABI_Sandbox(t *testing.T) {
	for _, name := range append(slices.Clone(sandboxMethods), sandboxLacks...) {
		i := slices.IndexFunc(uapi.Methods, func(m uapi.Method) bool { return m.Name == name })
		if i < 0 {
			t.Errorf("there is no method %s", name)
		} else if m := uapi.Methods[i]; sandboxMethod(m.Object, m.ID) == nil {
			t.Errorf("%s is refused", name)
		} else if len(sandboxMethod(m.Object, m.ID).Attrs) == len(m.Attrs) == slices.Contains(sandboxLacks, name) {
			t.Errorf("%s has the attributes %+v", name, m.Attrs)
		}
	}
	for _, n := range sandboxCmds {
		if uapi.FindCmd(n) == nil {
			t.Errorf("there is no command %#x", n)
		}
	}
}
