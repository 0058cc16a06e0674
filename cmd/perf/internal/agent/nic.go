package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/nics"
)

// NIC is a port of an adapter that an agent tests.
type NIC struct {
	Name    string   `json:"name,omitempty"` // as mlx5_0 or, of its second port, mlx5_0:2; empty: it is the only one
	Link    string   `json:"link,omitempty"` // layer, if it is known
	Rate    float64  `json:"rate,omitempty"` // of the link, in bits per second; 0: not known
	Problem string   `json:"problem,omitempty"`
	Spare   bool     `json:"spare,omitempty"` // nobody asked for it by its name
	Options []string `json:"-"`               // of rdmaperf, for its tests
}

// NICs are those of a host. Of a list that is too long, just as many are decoded as show that.
type NICs []NIC

// UnmarshalJSON reads a list of bounded length.
func (l *NICs) UnmarshalJSON(b []byte) (err error) {
	*l, err = bounded[NIC](b, nics.Most+1)
	return err
}

// Addrs are addresses of a host. Those that are too many are ignored.
type Addrs []string

// UnmarshalJSON reads a list of bounded length.
func (l *Addrs) UnmarshalJSON(b []byte) (err error) {
	*l, err = bounded[string](b, MostAddresses)
	return err
}

// bounded decodes the first elements of a list, at most most.
func bounded[T any](b []byte, most int) (list []T, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	switch t, err := d.Token(); {
	case err != nil || t == nil: // null
		return nil, err
	case t != json.Delim('['):
		return nil, fmt.Errorf("%w: %.20q instead of a list", ErrFrame, b)
	}
	for d.More() && len(list) < most {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// Have takes over the list of NICs. If none of them can run tests, the agent itself has a problem.
func (h *Hello) Have(list []NIC) {
	h.NICs, h.Problem = list, ""
	if len(list) > 0 && !slices.ContainsFunc(list, func(n NIC) bool { return n.Problem == "" }) {
		h.Problem = list[0].Problem
	}
}

// CheckNICs returns what is wrong with the NICs of an agent.
func (h *Hello) CheckNICs() error {
	if len(h.NICs) > nics.Most {
		return fmt.Errorf("it has more than %d NICs, which is the limit", nics.Most)
	}
	if len(h.NICs) == 0 {
		return errors.New("it has no NIC")
	}
	names := map[string]bool{}
	for _, n := range h.NICs {
		if n.Name == "" && len(h.NICs) > 1 {
			return errors.New("it has several NICs, and one has no name")
		}
		odd := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }
		if len(n.Name) > 100 || strings.ContainsFunc(n.Name, odd) {
			return fmt.Errorf("it has a NIC named %.100q", n.Name)
		}
		if names[n.Name] {
			return fmt.Errorf("it has two NICs named %s", n.Name)
		}
		if !(n.Rate >= 0 && n.Rate <= 1e15) {
			return fmt.Errorf("its NIC %s has a link of %g bit/s", n.Name, n.Rate)
		}
		if names[n.Name] = true; len(n.Link) > 100 || len(n.Problem) > 1000 {
			return fmt.Errorf("it says too much about its NIC %s", n.Name)
		}
	}
	return nil
}

// options returns those of the tests of a NIC.
func (h *Hello) options(name string) ([]string, error) {
	i := slices.IndexFunc(h.NICs, func(n NIC) bool { return n.Name == name })
	if i < 0 {
		have := lists.Map(h.NICs, func(n NIC) string { return n.Name })
		return nil, fmt.Errorf("no NIC %.100q here; there are: %s", name, strings.Join(have, ", "))
	}
	return h.NICs[i].Options, nil
}
