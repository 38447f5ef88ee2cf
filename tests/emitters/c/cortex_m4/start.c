/* Start of a program on QEMU's board mps2-an386: memory is set up, main runs, and semihosting carries its files. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t data_start, data_stop, data_from, bss_start, bss_stop;
extern int main(void);
extern void initialise_monitor_handles(void);

void _init(void) {}
void _fini(void) {}

void reset_handler(void)
{
    const uint32_t *from = &data_from;

    for (uint32_t *to = &data_start; to < &data_stop;)
        *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_stop;)
        *to++ = 0;
    initialise_monitor_handles();
    exit(main());
}

__attribute__((section(".vectors"), used)) static void *const vectors[] = {(void *)0x20400000, (void *)reset_handler};
