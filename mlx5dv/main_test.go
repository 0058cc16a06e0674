package mlx5dv

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

// TestMain fails when a test leaves an object open.
func TestMain(m *testing.M) { emulated.Main(m) }
