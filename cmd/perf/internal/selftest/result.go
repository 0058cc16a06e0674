package selftest

import (
	"encoding/json"
	"time"
)

// Outcome is how a check or a step ended.
type Outcome string

// The outcomes. That of a step is its worst check's.
const (
	Passed  Outcome = "passed"
	Skipped Outcome = "skipped" // the device, the library or this user cannot do it: Reason has the cause
	Failed  Outcome = "failed"
)

// Options choose the devices, the steps and their limits.
type Options struct {
	Devices []string `json:"devices"` // one for both ends, or one for each; none: the first of mlx5 with an active port
	Port    int      `json:"port"`    // of the devices; 0: the first active one
	GIDs    [2]int   `json:"gids"`    // index for each end; -1: the best one
	Posts   uint64   `json:"posts"`   // of the BlueFlame soak
	Wakeups uint64   `json:"wakeups"` // of arm and notify
	Lost    int      `json:"lost"`    // seconds without a completion after which arm and notify report it as lost
	Seconds int      `json:"seconds"` // the most for a step
	Frames  bool     `json:"frames"`  // also send frames and make steering rules
	Steps   []int    `json:"steps"`   // nil: all
}

// watchdog is how long a completion may take. One that takes longer is lost: its event, or the completion.
func (o *Options) watchdog() time.Duration { return time.Duration(o.Lost) * time.Second }

// Result is the object to send back.
type Result struct {
	Tool          string    `json:"tool"` // rdmaperf selftest
	SchemaVersion int       `json:"schema_version"`
	Program       string    `json:"program"`
	Go            string    `json:"go"`
	Arch          string    `json:"arch"`
	CPUs          int       `json:"cpus"`
	Started       time.Time `json:"started"`
	Seconds       float64   `json:"seconds"`
	Options       Options   `json:"options"`
	Link          string    `json:"link"` // Ethernet or InfiniBand
	Ends          [2]End    `json:"ends"`
	Passed        int       `json:"passed"` // checks
	Failed        int       `json:"failed"`
	Skipped       int       `json:"skipped"`
	Steps         []Step    `json:"steps"`
}

// End is one end of each connection.
type End struct {
	Device   string `json:"device"`
	Driver   string `json:"driver"`
	Firmware string `json:"firmware"`
	Board    string `json:"board"`
	PCIID    string `json:"pci_id"`
	Port     int    `json:"port"`
	Link     string `json:"link"`
	Rate     string `json:"rate"`
	MTU      int    `json:"active_mtu_bytes"`
	LID      uint16 `json:"lid"`
	GIDIndex int    `json:"gid_index"`
	GID      string `json:"gid"`
	GIDType  string `json:"gid_type"`
	GRH      bool   `json:"grh_required,omitempty"` // of each packet, also on InfiniBand
	Emulated bool   `json:"emulated,omitempty"`     // the figures say nothing about a NIC
}

// Step is one of the twelve.
type Step struct {
	Number  int     `json:"step"`
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"` // that it has no checks, or not all of them
	Seconds float64 `json:"seconds"`
	Checks  []Check `json:"checks"`
	// step 1: the report of rdmaperf doctor, and what the devices report
	Host   json.RawMessage `json:"host,omitempty"`
	Output string          `json:"output,omitempty"` // of a process that crashed or was ended
}

// Check is one thing that was tried.
type Check struct {
	Name      string             `json:"check"`
	Outcome   Outcome            `json:"outcome"`
	Reason    string             `json:"reason,omitempty"`
	Seconds   float64            `json:"seconds"`
	Count     uint64             `json:"count,omitempty"`  // what was done
	Wanted    uint64             `json:"wanted,omitempty"` // if the time was over before Count was this many
	DataPath  string             `json:"data_path,omitempty"`
	Figures   map[string]float64 `json:"figures,omitempty"`
	Syndromes []Syndrome         `json:"syndromes,omitempty"`
	Notes     []string           `json:"notes,omitempty"`
}

// Syndrome is a completion with an error, as the device reported it.
type Syndrome struct {
	Cause    string `json:"cause"`
	Side     string `json:"side"` // requester or responder
	Status   string `json:"status"`
	Code     uint32 `json:"status_code"`
	Vendor   uint32 `json:"vendor_syndrome"`
	Expected string `json:"expected"`
}

// outcomes returns how many checks of a step ended in each way.
func (s *Step) outcomes() map[Outcome]int {
	n := map[Outcome]int{}
	for _, c := range s.Checks {
		n[c.Outcome]++
	}
	return n
}

// settle sets the outcome of a step to the worst of its checks.
func (s *Step) settle() {
	switch n := s.outcomes(); {
	case s.Outcome == Failed:
	case n[Failed] > 0:
		s.Outcome = Failed
	case n[Passed] > 0:
		s.Outcome = Passed
	default:
		s.Outcome = Skipped
	}
}

// count adds up the checks. A step that ended without a check that failed, as by a crash, counts as one.
func (r *Result) count() {
	for _, s := range r.Steps {
		n := s.outcomes()
		if s.Outcome == Failed {
			n[Failed] = max(n[Failed], 1)
		}
		r.Passed, r.Failed, r.Skipped = r.Passed+n[Passed], r.Failed+n[Failed], r.Skipped+n[Skipped]
	}
}
