package roster

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Place is where a launcher put a process among those that it started.
type Place struct {
	Rank  int    `json:"rank"`
	Of    int    `json:"of,omitempty"`    // 0: nobody said
	Nodes string `json:"nodes,omitempty"` // Slurm's list of the nodes that the launcher uses
	Job   string `json:"job,omitempty"`   // of Slurm, with its step
}

// Nowhere is the place of a process without a rank.
var Nowhere = Place{Rank: -1}

// ranks are the variables of launchers: of the rank, and of their number.
var ranks = []struct{ rank, of string }{
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, // Open MPI
	{"PMI_RANK", "PMI_SIZE"},                         // MPICH, Intel MPI
	{"SLURM_PROCID", "SLURM_NTASKS"},                 // srun
	{"JOB_COMPLETION_INDEX", ""},                     // an indexed Job of Kubernetes
}

// FindPlace reads the place that a launcher wrote into the environment.
func FindPlace(getenv func(string) string) (Place, error) {
	for _, v := range ranks {
		if getenv(v.rank) == "" || v.of != "" && getenv(v.of) == "" {
			continue
		}
		job := getenv("SLURM_JOB_ID")
		p := Place{Nodes: cmp.Or(getenv("SLURM_STEP_NODELIST"), Allocation(getenv).Nodes),
			Job: lists.When(job != "", job+"."+getenv("SLURM_STEP_ID"))}
		n, err := strconv.ParseUint(getenv(v.rank), 10, 31)
		if v.of != "" && err == nil {
			var of uint64
			of, err = strconv.ParseUint(getenv(v.of), 10, 31)
			p.Of = int(of)
		}
		p.Rank = int(n)
		if err != nil || v.of != "" && p.Rank >= p.Of {
			return Nowhere, fmt.Errorf("rank %s=%.20q of %s=%.20q", v.rank, getenv(v.rank), v.of, getenv(v.of))
		}
		return p, nil
	}
	return Nowhere, nil
}

// Allocation returns what is known before a launcher has placed anybody: the nodes that it may use.
func Allocation(getenv func(string) string) Place {
	return Place{Rank: -1, Nodes: getenv("SLURM_JOB_NODELIST")}
}

// FindName returns the name that the scheduler has for this host, or its own.
func FindName(getenv func(string) string, hostname func() (string, error)) string {
	for _, name := range []string{"SLURMD_NODENAME", "NODE_NAME"} {
		if v := getenv(name); v != "" {
			return v
		}
	}
	name, err := hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
