# A file system (FAT32, sectors of 512 bytes, each a cluster): its first 1,200 sectors, and the folder of so many files,
# each of up to three clusters.
function number(value, bytes) { while (bytes-- > 0) { printf "%c", value % 256; value = int(value / 256) } }
function zeros(count) { number(0, count) }
BEGIN {
    total = 70000; size = 560; folder = int((files + 15) / 16)
    # The boot sector and its copy.
    for (copy = 0; copy < 2; copy++) {
        printf "%c%c%c", 235, 88, 144; printf "MSDOS5.0"; number(512, 2); number(1, 1); number(32, 2); number(2, 1)
        number(0, 2); number(0, 2); number(248, 1); number(0, 2); number(32, 2); number(2, 2); number(0, 4)
        number(total, 4); number(size, 4); number(0, 2); number(0, 2); number(2, 4); number(1, 2); number(6, 2)
        zeros(12); number(128, 1); number(0, 1); number(41, 1); number(4660, 4); printf "NO NAME    FAT32   "
        zeros(420); number(43605, 2)
        # What is free.
        printf "RRaA"; zeros(480); printf "rrAa"; number(4294967295, 4); number(4294967295, 4); zeros(12); zeros(2)
        number(43605, 2)
        zeros(512 * (copy ? 24 : 4))
    }
    for (copy = 0; copy < 2; copy++) {
        number(268435448, 4); number(268435455, 4); entries = 2
        for (i = 1; i <= folder; i++) { number(i < folder ? entries + 1 : 268435455, 4); entries++ }
        for (i = 0; i < files; i++)
            for (j = i % 3; j >= 0; j--) { number(j ? entries + 1 : 268435455, 4); entries++ }
        zeros(512 * size - 4 * entries)
    }
    first = 2 + folder
    for (i = 0; i < files; i++) {
        printf "F%07dTXT", i; number(32, 1); zeros(8); number(int(first / 65536), 2); zeros(2); number(10273, 2)
        number(first % 65536, 2); number(512 * (i % 3) + 100, 4); first += i % 3 + 1
    }
    zeros(32 * (folder * 16 - files))
}
