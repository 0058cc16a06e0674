package mesh

import (
	"errors"
	"fmt"
	"strconv"
)

// Rank is the place of this process among those that a launcher started.
type Rank struct {
	Number, Of int
	Nodes      string // Slurm's list; "" from MPI
}

// FindRank reads the rank that srun or mpirun put into the environment; ok is false without one.
func FindRank(getenv func(string) string) (r Rank, ok bool, err error) {
	for _, v := range []struct{ number, of string }{
		{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"},
	} {
		if getenv(v.number) == "" || getenv(v.of) == "" {
			continue
		}
		n, err1 := strconv.ParseUint(getenv(v.number), 10, 31)
		of, err2 := strconv.ParseUint(getenv(v.of), 10, 31)
		if err1 != nil || err2 != nil || n >= of {
			return r, true, fmt.Errorf("rank %s=%.20q of %s=%.20q", v.number, getenv(v.number), v.of, getenv(v.of))
		}
		r = Rank{Number: int(n), Of: int(of), Nodes: getenv("SLURM_STEP_NODELIST")}
		if r.Nodes == "" {
			r.Nodes = getenv("SLURM_JOB_NODELIST")
		}
		return r, true, nil
	}
	return r, false, nil
}

// Hosts returns the names of the nodes of a job of Slurm.
func (r Rank) Hosts() ([]string, error) {
	if r.Nodes == "" {
		return nil, errors.New("ranks without SLURM_JOB_NODELIST: also give --hosts or --hostfile")
	}
	names, err := ExpandNodes(r.Nodes)
	if err == nil && len(names) != r.Of {
		err = fmt.Errorf("%d ranks on %d nodes (%s): start one on each (srun --ntasks-per-node=1)", r.Of, len(names),
			r.Nodes)
	}
	return names, err
}
