/* The entry point of the program: applies the relocations that the linker has packed (DT_RELR), and
 * goes on in musl, which does that itself only since 1.2.4. Packed, they are a few hundred octets
 * instead of 36 kB. Nothing is relocated yet here: this uses no function and no address of data. */

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* The beginning of the program in memory, and its dynamic section. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

/* An even entry is the offset of an address, an odd one tells which of the 63 words after the last
 * entry's are addresses. Sets the size of the table to 0, so that no musl applies it again. */
__attribute__((used)) static void relocate(void) {
	const uintptr_t base = (uintptr_t)__ehdr_start;
	const uintptr_t *table = NULL, *end;
	uintptr_t *next = NULL;
	Elf64_Dyn *size = NULL;

	for (Elf64_Dyn *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_RELR)
			table = (const uintptr_t *)(base + entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELRSZ)
			size = entry;
	}
	if (table == NULL || size == NULL)
		return;
	for (end = table + size->d_un.d_val / sizeof *table; table < end; table++) {
		if (*table % 2 == 0) {
			next = (uintptr_t *)(base + *table);
			*next++ += base;
		} else {
			for (int word = 0; word < 63; word++)
				if (*table >> (word + 1) & 1)
					next[word] += base;
			next += 63;
		}
	}
	size->d_un.d_val = 0;
}

/* The stack is as musl's entry point expects it. */
__attribute__((naked)) void start_packed(void) {
	__asm__("call relocate\n\tjmp _start");
}
