//go:build linux

package verbs

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// RuleWrite is the rule of strict mode that a kernel with the ioctl alone adds. A seccomp filter could not see which
// file a descriptor leads to.
const RuleWrite = "uverbs-write"

// forms are what a kernel has of the commands' forms.
type forms struct {
	noIoctl, noWrite bool
	method           func(object, id uint16) *uapi.Method
	cmd              func(number uint32) *uapi.Cmd // of INVOKE_WRITE
	absent           unix.Errno                    // for what the two lack, if it is not the kernel's
}

var abis = [...]forms{
	config.ABIBoth:    {method: uapi.FindMethod, cmd: uapi.FindCmd},
	config.ABIWrite:   {noIoctl: true},
	config.ABIIoctl:   {noWrite: true, method: uapi.FindMethod, cmd: uapi.FindCmd},
	config.ABIInvoke:  {noWrite: true, method: onlyMethod, cmd: uapi.FindCmd},
	config.ABISandbox: {noWrite: true, method: sandboxMethod, cmd: sandboxCmd, absent: unix.EINVAL},
}

// refusal returns the errno for a request that could not be read.
func (f *forms) refusal(e unix.Errno) unix.Errno {
	if f.absent != 0 && (e == unix.EPROTONOSUPPORT || e == unix.EOPNOTSUPP) {
		return f.absent
	}
	return e
}

// What gVisor passes to the kernel. It has no completion channels, SRQs, device memory, WQs, flows and DevX.
var (
	sandboxMethods = strings.Fields(`invoke_write get_context query_context query_port query_gid_table query_gid_entry
		dealloc_pd destroy_ah reg_mr reg_dmabuf_mr dereg_mr create_cq destroy_cq create_qp destroy_qp async_event_alloc
		uar_alloc uar_destroy`)
	sandboxCmds = []uint32{1, 2, 3, 4, 5, 8, 9, 13, 14, 16, 25, 26, 30, 31, 33, 34, 38, 40, ex | 1, ex | 26}
	// sandboxLacks are attributes of these methods that it refuses: those of the driver.
	sandboxLacks = []string{"query_context", "reg_dmabuf_mr"}
)

const ex = uapi.CmdExtended

// onlyMethod finds a method without a command of write(), as of kernels whose other commands are no methods yet.
func onlyMethod(object, id uint16) *uapi.Method {
	m := uapi.FindMethod(object, id)
	if m != nil && slices.ContainsFunc(uapi.Cmds, func(c uapi.Cmd) bool { return c.Name == m.Name }) {
		return nil
	}
	return m
}

func sandboxMethod(object, id uint16) *uapi.Method {
	m := uapi.FindMethod(object, id)
	if m == nil || !slices.Contains(sandboxMethods, m.Name) {
		return nil
	}
	if slices.Contains(sandboxLacks, m.Name) {
		some := *m
		some.Attrs = slices.DeleteFunc(slices.Clone(m.Attrs), func(s uapi.Spec) bool { return s.ID >= uapi.DriverNS })
		return &some
	}
	return m
}

func sandboxCmd(number uint32) *uapi.Cmd {
	if !slices.Contains(sandboxCmds, number) {
		return nil
	}
	return uapi.FindCmd(number)
}
