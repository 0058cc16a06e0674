package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// Host is the result of step 1.
type Host struct {
	Doctor      *doctor.Report `json:"doctor"`
	Environment []string       `json:"environment"` // variables of libmlx5, libibverbs and this project
	Log         []string       `json:"kernel_log"`  // its last lines about the driver, if this user may read it
	Devices     []HostDevice   `json:"devices"`
}

// HostDevice has the attributes of a device, as the libraries report them.
type HostDevice struct {
	Name       string             `json:"name"`
	Attributes *ibv.DeviceAttr    `json:"attributes"`
	MLX5       *mlx5dv.DeviceAttr `json:"mlx5,omitempty"`
	Port       *ibv.PortAttr      `json:"port"`
	GIDs       []string           `json:"gids"`
}

// variables are those that change what the libraries, this project and Go do.
var variables = regexp.MustCompile(`^(MLX5_|MLX_|RDMAV_|IBV_|PUREVERBS_|GOMAXPROCS=|GODEBUG=|GOGC=)`)

// hostStep is step 1.
func hostStep(s *stage) {
	h := &Host{Environment: []string{}, Log: []string{}, Devices: []HostDevice{}}
	s.check("rdmaperf doctor", func(b *box) {
		h.Doctor = doctor.Examine(doctor.This(), "rdmaperf selftest")
		for _, f := range h.Doctor.Findings {
			if f.Severity >= doctor.Warning {
				b.note("%v: %s: %s", f.Severity, f.Subject, f.Text)
			}
		}
	})
	for i, e := range s.at {
		if i > 0 && e.Device == s.at[0].Device {
			break
		}
		s.check("attributes of "+e.Device, func(b *box) { h.Devices = append(h.Devices, attributes(b, &e)) })
	}
	for _, v := range os.Environ() {
		if variables.MatchString(v) {
			h.Environment = append(h.Environment, v)
		}
	}
	s.check("kernel log", func(b *box) {
		lines, err := kernelLog(b.ctx)
		if err != nil {
			b.skip("dmesg: %v", err)
		}
		h.Log = lines
	})
	text, err := json.Marshal(h)
	if err != nil {
		s.step.Reason = err.Error()
		s.step.Outcome = Failed
	}
	s.step.Host = text
}

func attributes(b *box, e *End) HostDevice {
	h := HostDevice{Name: e.Device}
	dev := own(ibv.Open(e.Device))(b)
	h.Attributes = must(dev.QueryDevice())(b)
	h.Port = must(dev.QueryPort(uint8(e.Port)))(b)
	for _, g := range must(dev.GIDTable())(b) {
		if g.Port == uint8(e.Port) {
			h.GIDs = append(h.GIDs, fmt.Sprintf("%d %v %v %s", g.Index, g.GID, g.Type, g.Netdev))
		}
	}
	var err error
	if h.MLX5, err = mlx5dv.QueryDevice(dev); err != nil {
		b.note("mlx5: %v", err)
		return h
	}
	h.MLX5.HCACoreClock = 0 // an address of this process
	return h
}

// kernelLog returns the last lines about the driver.
func kernelLog(ctx context.Context) ([]string, error) {
	const most = 200
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "dmesg").Output()
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for l := range strings.Lines(string(out)) {
		if strings.Contains(l, "mlx5") || strings.Contains(l, "infiniband") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	return lines[max(0, len(lines)-most):], nil
}
