package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/hostfacts"
	"github.com/pureverbs/pureverbs/internal/flags"
	"github.com/pureverbs/pureverbs/loader"
)

// Severity is the severity of a finding.
type Severity uint8

// The severities.
const (
	OK      Severity = 0
	Note    Severity = 1 // worth knowing; nothing to do
	Warning Severity = 2 // it works, but not for all or not at full speed
	Error   Severity = 3 // it does not work
)

var severityNames = []string{"ok", "note", "warning", "error"}

// String returns ok, note, warning or error.
func (s Severity) String() string { return flags.Name("Severity", int64(s), severityNames) }

// MarshalText implements [encoding.TextMarshaler] with [Severity.String].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(b []byte) error {
	if i := slices.Index(severityNames, string(b)); i >= 0 {
		*s = Severity(i)
		return nil
	}
	return fmt.Errorf("severity %.20q, want ok, note, warning or error", b)
}

// Finding is one thing that was looked at.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`            // host, or a device, or a port: mlx5_0/1
	Check    string   `json:"check"`              // what was looked at: memlock, gid, pcie
	Text     string   `json:"text"`               // what was found
	Evidence string   `json:"evidence,omitempty"` // what was read, and where
	Remedy   string   `json:"remedy,omitempty"`   // the command that mends it
}

// is sets how bad it is, what was found, and the command that mends it.
func (f *Finding) is(s Severity, remedy, text string, args ...any) {
	f.Severity, f.Remedy, f.Text = s, remedy, fmt.Sprintf(text, args...)
}

// Device is a device, and how its ports are connected.
type Device struct {
	hostfacts.Device
	hostfacts.PCI
	Links []Link `json:"links"`
}

// Link is the state of a port.
type Link struct {
	Port      int               `json:"port"`
	MTU       int               `json:"active_mtu_bytes"` // 0 if it is not known
	GID       *int              `json:"best_gid_index"`   // nil if there is no good one
	GIDType   string            `json:"best_gid_type"`    // RoCEv2
	Address   string            `json:"best_gid_address"` // of RoCE
	Netdev    string            `json:"netdev"`
	NetdevMTU int               `json:"netdev_mtu_bytes"`
	Lossless  map[string]string `json:"flow_control"` // trust, pfc, ecn, if sysfs has them
}

// Report is the result of [Examine].
type Report struct {
	Tool          string       `json:"tool"`
	SchemaVersion int          `json:"schema_version"`
	Program       string       `json:"program"`
	Hostname      string       `json:"hostname"`
	Kernel        string       `json:"kernel"`
	Worst         Severity     `json:"worst"`
	Findings      []Finding    `json:"findings"`
	Devices       []Device     `json:"devices"`
	Libraries     *loader.Info `json:"libraries,omitempty"`
}

type examination struct {
	*Host
	*Report
	noVerbs  bool                 // libibverbs cannot be loaded: checks that need it fail for that reason
	unlisted map[string]bool      // devices without a driver in libibverbs: it cannot open them
	emulated string               // an emulated device, if all devices are: the name of the first
	here     *hostfacts.Namespace // nil until a GID table is read
	tables   map[string]*table    // by port
	groups   []hostfacts.Cgroup   // nil until a device is looked at
	cards    map[string]*card     // by device
	fastest  map[kin]int64        // the highest rate of ports that can be compared
}

func newExamination(h *Host, r *Report) *examination {
	x := &examination{Host: h, Report: r, unlisted: map[string]bool{}, tables: map[string]*table{},
		cards: map[string]*card{}, fastest: map[kin]int64{}}
	devs, err := h.Facts.Devices()
	real := func(d hostfacts.Device) bool { return !d.Emulated() }
	if err == nil && len(devs) > 0 && !slices.ContainsFunc(devs, real) {
		x.emulated = devs[0].Name
	}
	return x
}

// unreal are the checks of what an emulated adapter has not, or does not obey.
var unreal = map[string]bool{"governor": true, "numa": true, "iommu": true, "acs": true, "pcie": true, "cgroup": true,
	"qos": true, "firewall": true}

// options mend what is wrong with an emulated port. The commands for an adapter have no effect on it.
var options = map[string]string{"mtu": "--device DEV,mtu=4096", "port": "--device DEV,state=up",
	"gid": "--device DEV,gid=ADDRESS/v2", "pkey": "--device DEV,pkey=0xffff", "link": "--device DEV,width=4X",
	"memlock": "--memlock 0"}

// add adds a finding. Of an emulated adapter it leaves out what the emulator has not.
func (x *examination) add(f Finding) {
	if x.emulated != "" {
		if unreal[f.Check] {
			return
		}
		if o := options[f.Check]; o != "" && f.Remedy != "" && !strings.HasPrefix(f.Remedy, "show_gids") {
			dev, _, _ := strings.Cut(f.Subject, "/")
			if dev == "host" {
				dev = x.emulated
			}
			f.Remedy = "emu " + strings.ReplaceAll(o, "DEV", dev)
		}
	}
	x.Report.add(f)
}

// add adds a finding.
func (r *Report) add(f Finding) {
	r.Findings = append(r.Findings, f)
	r.Worst = max(r.Worst, f.Severity)
}

// card is all functions of one slot, or of two if they are one card (Socket Direct).
type card struct {
	bits, most int64    // what its PCIe links carry, and what they could
	need, port int64    // of all active ports, and of the fastest
	ports      []string // the active ones
}

// table is the GID table of a port, without empty entries.
type table struct {
	all  []hostfacts.GIDEntry
	list []hostfacts.GIDEntry // those that can be read
	best int                  // in the list; -1: none carries traffic
	err  error                // why it cannot be read, or none of its entries
}

// kin are ports that should run at the same rate: of the same board, on the same network. An empty network is any.
type kin struct {
	pci, board string
	layer      hostfacts.LinkLayer
	network    string
}

// noGUID is the node GUID of a virtual function that was given none.
const noGUID = "0000:0000:0000:0000"
