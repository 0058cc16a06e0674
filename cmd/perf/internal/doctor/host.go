package doctor

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/dcb"
	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/loader"
)

// Host is where a machine is read. Tests give another one.
type Host struct {
	Facts hostfacts.Host
	Dev   string // /dev

	Access    func(path string) error                  // whether this process may read and write the file
	Load      func() *loader.Info                      // which libraries are there
	Unlisted  func() error                             // why the library does not list devices of the kernel
	MTUs      func(device string) (map[int]int, error) // opens the device; active MTU by port
	Register  func(device string, bytes int) error     // registers memory of that size, and releases it
	Rules     func() (rules, from string, _ error)     // the packet filter's
	DCB       func(netdev string) (*dcb.Port, error)   // what it does with priorities
	Second    func()                                   // waits for one
	Native    *Native                                  // nil without rdmaperf doctor --native
	Container string                                   // the sign of a container, empty outside
}

// Attributes are the attributes of a device that a control path reports, by name, as in "device.MaxQP".
type Attributes map[string]string

// Native has the functions that the check of the native control path calls.
type Native struct {
	Loop       func(device string, port int) error             // a message through a QP that is connected to itself
	Attributes func(device string) (Attributes, error)         // natively
	Library    func() (devices map[string]Attributes, _ error) // by the library
}

// sysfs returns where the rest is read: what only vendors' drivers have, and modules.
func (h *Host) sysfs() sysfs.Root { return sysfs.Root(h.Facts.Sys) }
