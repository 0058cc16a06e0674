package native

// groups are the rows by package and reason.
var groups = []group{
	{"ibv", needsOps, `TestRXE_NumbersOfTheTable/Ops TestRXE_TrueSizes/Ops TestRXE_RegistersOfTheirOwn TestRXE_Faults
		TestRXE_ServiceLevel/Ops.* TestRXE_ResizeSRQ/Ops TestRXE_MWOldLibrary TestRXE_TagMatchingRefused
		TestRXE_Signatures TestRXE_SameWords TestRXE_WallClockUpdate/Ops`},
	{"ibv", needsC, `TestRXE_Adopt`},
	{"ibv", needsLibrary, `TestRXE_MWUnknownProvider`},

	{"mlx5dv", needsOps, `TestRXEDC/.*Ops.* TestRXEDC_Failures TestRXEDC_Streams/Ops TestRXEDC_BadInput/Ops
		TestRXEDC_Allocs TestRXECreateCQ/.*Ops TestRXEFaults TestRXEMkeyRoom TestRXEViewRefused/Ops
		TestRXEZZDeviceRemoved/Ops TestRXERawBytes TestRXE_MisplacedResults/Ops`},
	{"mlx5dv", needsMLX5, `TestRXEDirectRules/dump`},
	{"mlx5dv", lacks("mlx5dv", library), `TestRXEMkeyConfigure TestRXEMemcpy
		TestRXEMemcpy_DCI TestRXEMkeyErrors TestRXEMkeyBytes TestRXEMkey TestRXEMkeyAllocs
		TestRXE_PayloadInCQE TestRXESignature`},

	{"cmd/perf", needsEFA, `TestRXE_Mismatch/device_limits`},
}
